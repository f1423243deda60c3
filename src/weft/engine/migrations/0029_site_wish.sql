-- What an operator applied of a site: the resources that its owner should have in the clouds. Activating another
-- generation changes nothing there until it is applied.
CREATE TABLE site_wish (
    owner_id    uuid        PRIMARY KEY,
    -- of the site
    generation  bigint      NOT NULL,
    graph       jsonb       NOT NULL,
    -- key of a resource -> id of an existing one that is adopted for it
    adopted     jsonb       NOT NULL DEFAULT '{}',
    applied_at  timestamptz NOT NULL,
    applied_by  text        NOT NULL
);
