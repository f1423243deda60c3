-- Nodes that a project has reported: its orders don't get them until an operator clears the report; other projects' do.
CREATE TABLE node_report (
    node         text         NOT NULL,
    project_id   text         NOT NULL,
    pod_id       uuid         NOT NULL,
    pod          text         NOT NULL,
    at           timestamptz  NOT NULL,
    reported_by  text         NOT NULL,
    reason       text         NOT NULL,
    PRIMARY KEY (node, project_id)
);
CREATE INDEX node_report_project ON node_report (project_id);
CREATE TRIGGER node_report_came AFTER INSERT ON node_report REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_report_went AFTER DELETE ON node_report REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_report_was AFTER UPDATE ON node_report REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_report_is AFTER UPDATE ON node_report REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_report_emptied AFTER TRUNCATE ON node_report FOR EACH STATEMENT EXECUTE FUNCTION note_all();
