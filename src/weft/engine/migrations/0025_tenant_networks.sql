-- Networks that tenants created in Neutron on a fabric's physical network, as they were last read: what is desired of
-- the owner of kind `network`, and whether each port is in its segment.
CREATE TABLE tenant_network (
    owner_id    uuid        PRIMARY KEY,
    cloud       text        NOT NULL,
    fabric      text        NOT NULL,
    network_id  text        NOT NULL,
    document    jsonb       NOT NULL,
    -- when the last reading that showed it began; an older one changes nothing
    read_at     timestamptz NOT NULL,
    -- number of its ports by state, and since when the first waiting one has waited
    ports_in    integer     NOT NULL DEFAULT 0,
    waiting     integer     NOT NULL DEFAULT 0,
    out         integer     NOT NULL DEFAULT 0,
    waits_since timestamptz
);
CREATE INDEX tenant_network_place ON tenant_network (cloud, fabric);
