-- What else a server has of a shared node: its own cores, cores and memory of NUMA nodes, virtual functions.
ALTER TABLE part_hold ADD COLUMN dedicated boolean NOT NULL DEFAULT false;
ALTER TABLE part_hold ADD COLUMN numa integer[] NOT NULL DEFAULT '{}';
ALTER TABLE part_hold ADD COLUMN numa_of integer NOT NULL DEFAULT 1;

-- A virtual function as weft counts it (adapter/number). Its slot is the PCI address of the one that Nova has bound for
-- it on the host; null until that was read.
CREATE TABLE function_hold (
    node      text    NOT NULL,
    function  text    NOT NULL,
    pod_id    uuid    NOT NULL,
    server    integer NOT NULL,
    slot      text,
    PRIMARY KEY (node, function),
    UNIQUE (node, slot),
    FOREIGN KEY (node, pod_id, server) REFERENCES part_hold ON DELETE CASCADE
);
CREATE INDEX function_hold_pod ON function_hold (pod_id);

-- What a booking promises to an order for parts, server by server; null for whole nodes.
ALTER TABLE promise ADD COLUMN parts jsonb;

CREATE OR REPLACE FUNCTION check_part_hold() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sum_cores bigint;
    sum_memory bigint;
    cell integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('weft.node/' || NEW.node));
    IF EXISTS (SELECT FROM part_hold p WHERE p.node = NEW.node AND p.devices && NEW.devices) THEN
        RAISE unique_violation USING MESSAGE = 'an accelerator of ' || NEW.node || ' is held', CONSTRAINT = 'part_hold_devices';
    END IF;
    SELECT coalesce(sum(cores) FILTER (WHERE dedicated = NEW.dedicated), 0) + NEW.cores,
        coalesce(sum(memory_mib), 0) + NEW.memory_mib
    INTO sum_cores, sum_memory FROM part_hold WHERE node = NEW.node;
    IF sum_cores > NEW.of_cores OR sum_memory > NEW.of_memory_mib THEN
        RAISE unique_violation USING MESSAGE = NEW.node || ' has not so much left', CONSTRAINT = 'part_hold_room';
    END IF;
    FOREACH cell IN ARRAY NEW.numa LOOP
        SELECT coalesce(sum(ceil(cores::numeric / cardinality(numa))) FILTER (WHERE dedicated = NEW.dedicated), 0)
                + ceil(NEW.cores::numeric / cardinality(NEW.numa)),
            coalesce(sum(ceil(memory_mib::numeric / cardinality(numa))), 0)
                + ceil(NEW.memory_mib::numeric / cardinality(NEW.numa))
        INTO sum_cores, sum_memory FROM part_hold WHERE node = NEW.node AND cell = ANY(numa);
        IF sum_cores > NEW.of_cores / NEW.numa_of OR sum_memory > NEW.of_memory_mib / NEW.numa_of THEN
            RAISE unique_violation USING MESSAGE = 'NUMA node ' || cell || ' of ' || NEW.node || ' has not so much left',
                CONSTRAINT = 'part_hold_numa';
        END IF;
    END LOOP;
    RETURN NEW;
END $$;
