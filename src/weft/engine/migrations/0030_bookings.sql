-- A start promised to an order is called a booking, everywhere. Triggers follow the renamed table.
ALTER TABLE promise RENAME TO booking;
ALTER TABLE booking RENAME CONSTRAINT promise_times TO booking_times;
ALTER INDEX promise_pkey RENAME TO booking_pkey;
