-- Number of claims that this database has made in each cloud. A note in the cloud has the same number: a restored dump
-- is behind it, and places nothing until an operator accepts it.
CREATE TABLE epoch (
    cloud   text PRIMARY KEY,
    life    uuid   NOT NULL,
    number  bigint NOT NULL
);
