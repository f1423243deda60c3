-- A process of an earlier weft that still runs must fail, rather than write pods that take no capacity.
ALTER TABLE pod ALTER COLUMN units DROP DEFAULT;
