-- Where switches say whether links are up: a link that is down counts as an adapter that is gone if it was up while the pod
-- had the node. A guest without a driver, or an idle node, may never bring it up.
ALTER TABLE adapter_gone ADD COLUMN of_link boolean NOT NULL DEFAULT false;
CREATE TABLE adapter_up (
    pod_id  uuid  NOT NULL,
    node    text  NOT NULL,
    fabric  text  NOT NULL,
    port    text  NOT NULL,
    PRIMARY KEY (pod_id, fabric, port)
);
