-- Reasons and events are codes with values (weft.model.messages). What older versions wrote stays as it is, a string, which
-- operators read. Not-null goes for the change of type: its constraint has another name in the child than in the parent.
ALTER TABLE owner ALTER COLUMN reason DROP DEFAULT, ALTER COLUMN reason DROP NOT NULL;
ALTER TABLE owner ALTER COLUMN reason TYPE jsonb USING to_jsonb(reason);
ALTER TABLE owner ALTER COLUMN reason SET DEFAULT '""', ALTER COLUMN reason SET NOT NULL;
ALTER TABLE resource ALTER COLUMN reason DROP DEFAULT;
ALTER TABLE resource ALTER COLUMN reason TYPE jsonb USING to_jsonb(reason);
ALTER TABLE resource ALTER COLUMN reason SET DEFAULT '""';
ALTER TABLE event ALTER COLUMN message TYPE jsonb USING to_jsonb(message);
