-- A process of an earlier weft that still runs must fail loudly, rather than write pods that take nothing.
ALTER TABLE pod ALTER COLUMN units DROP DEFAULT;
