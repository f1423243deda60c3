-- Open bookings: nodes that are kept, without a time, for an order whose start isn't known, from those that came later.
ALTER TABLE promise ADD COLUMN open boolean NOT NULL DEFAULT false;
