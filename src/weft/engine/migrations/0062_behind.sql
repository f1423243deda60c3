-- Clouds whose note shows that this database is behind, until a note is read that says otherwise.
CREATE TABLE epoch_behind (
    cloud  text PRIMARY KEY
);
