-- A node is held whole by one pod, or in parts by several. Another table has each server's part of a shared node.
ALTER TABLE node_hold DROP CONSTRAINT node_hold_pkey;
ALTER TABLE node_hold ADD COLUMN whole boolean NOT NULL DEFAULT true;
ALTER TABLE node_hold ADD PRIMARY KEY (node, pod_id);
CREATE UNIQUE INDEX node_hold_whole ON node_hold (node) WHERE whole;

CREATE TABLE part_hold (
    node           text    NOT NULL,
    pod_id         uuid    NOT NULL,
    server         integer NOT NULL,
    devices        text[]  NOT NULL,
    cores          integer NOT NULL,
    memory_mib     bigint  NOT NULL,
    of_cores       integer,
    of_memory_mib  bigint,
    PRIMARY KEY (node, pod_id, server),
    FOREIGN KEY (node, pod_id) REFERENCES node_hold ON DELETE CASCADE
);

-- Claims hold weft.capacity, so these never refuse what was planned right; they catch mistakes of planning.
CREATE FUNCTION check_node_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('weft.node/' || NEW.node));
    IF EXISTS (SELECT FROM node_hold h WHERE h.node = NEW.node AND h.pod_id <> NEW.pod_id AND (h.whole OR NEW.whole)) THEN
        RAISE unique_violation USING MESSAGE = 'node ' || NEW.node || ' is held by another pod', CONSTRAINT = 'node_hold_whole';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER node_hold_check BEFORE INSERT ON node_hold FOR EACH ROW EXECUTE FUNCTION check_node_hold();

CREATE FUNCTION check_part_hold() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sum_cores bigint;
    sum_memory bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('weft.node/' || NEW.node));
    IF EXISTS (SELECT FROM part_hold p WHERE p.node = NEW.node AND p.devices && NEW.devices) THEN
        RAISE unique_violation USING MESSAGE = 'an accelerator of ' || NEW.node || ' is held', CONSTRAINT = 'part_hold_devices';
    END IF;
    SELECT coalesce(sum(cores), 0) + NEW.cores, coalesce(sum(memory_mib), 0) + NEW.memory_mib
    INTO sum_cores, sum_memory FROM part_hold WHERE node = NEW.node;
    IF sum_cores > NEW.of_cores OR sum_memory > NEW.of_memory_mib THEN
        RAISE unique_violation USING MESSAGE = NEW.node || ' has not so much left', CONSTRAINT = 'part_hold_room';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER part_hold_check BEFORE INSERT ON part_hold FOR EACH ROW EXECUTE FUNCTION check_part_hold();
