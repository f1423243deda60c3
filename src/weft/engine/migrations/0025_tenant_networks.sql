-- Networks that tenants made in Neutron on a fabric's physical network, as they were last read: what is wanted of the owner
-- of kind `network`, and of each port whether it is in.
CREATE TABLE tenant_network (
    owner_id    uuid        PRIMARY KEY,
    cloud       text        NOT NULL,
    fabric      text        NOT NULL,
    network_id  text        NOT NULL,
    document    jsonb       NOT NULL,
    -- when the reading began that it was last seen in; an older one changes nothing
    read_at     timestamptz NOT NULL,
    -- its ports by state, and since when the first of those that wait does
    ports_in    integer     NOT NULL DEFAULT 0,
    waiting     integer     NOT NULL DEFAULT 0,
    out         integer     NOT NULL DEFAULT 0,
    waits_since timestamptz
);
CREATE INDEX tenant_network_place ON tenant_network (cloud, fabric);
