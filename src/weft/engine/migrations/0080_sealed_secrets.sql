-- Whether the value is encrypted with a key outside of the database (weft.engine.base.sealing).
ALTER TABLE secret ADD COLUMN sealed boolean NOT NULL DEFAULT false;
