-- Open bookings: nodes kept, without a time, for an order whose start isn't known, from orders that came later.
ALTER TABLE promise ADD COLUMN open boolean NOT NULL DEFAULT false;
