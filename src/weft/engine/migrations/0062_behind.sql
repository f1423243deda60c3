-- Clouds by whose note this database was found to be behind, until one of them is read that says otherwise.
CREATE TABLE epoch_behind (
    cloud  text PRIMARY KEY
);
