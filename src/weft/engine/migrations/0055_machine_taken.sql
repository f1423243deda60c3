-- The cleaning after which each machine was last claimed for a pod (when that ended, by Ironic's clock), and whether
-- the machine was seen in use since: an Ironic whose database was restored from a backup shows an old cleaning as the
-- latest one.
CREATE TABLE machine_taken (
    cloud text NOT NULL,
    machine text NOT NULL,
    ended timestamptz NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    used boolean NOT NULL DEFAULT false,
    PRIMARY KEY (cloud, machine)
);
