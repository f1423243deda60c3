-- How many claims this database has made in each cloud. A note in the cloud says the same: a dump that was restored is
-- behind it, and nothing is placed by it before an operator has looked.
CREATE TABLE epoch (
    cloud   text PRIMARY KEY,
    life    uuid   NOT NULL,
    number  bigint NOT NULL
);
