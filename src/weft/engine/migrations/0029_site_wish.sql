-- What an operator applied of a site: the resources that its owner is to have in the clouds. Activating another generation
-- changes nothing there until it is applied.
CREATE TABLE site_wish (
    owner_id    uuid        PRIMARY KEY,
    -- of the site
    generation  bigint      NOT NULL,
    graph       jsonb       NOT NULL,
    -- key of a resource -> id of what was there already and is taken in its place
    adopted     jsonb       NOT NULL DEFAULT '{}',
    applied_at  timestamptz NOT NULL,
    applied_by  text        NOT NULL
);
