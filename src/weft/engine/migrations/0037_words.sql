-- What an operator applied of a site is called its desired state, and `mend` becomes `repair`, as everywhere else.
ALTER TABLE site_wish RENAME TO site_desired;
ALTER INDEX site_wish_pkey RENAME TO site_desired_pkey;
-- Tables that inherit the column follow.
ALTER TABLE owner RENAME COLUMN mend TO repair;
