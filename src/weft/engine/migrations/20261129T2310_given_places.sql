-- A statement that writes many events provides their place (project and life), since a trigger looks both up for each
-- row. A life of 0 means that it wasn't provided, by other statements and earlier versions of weft.
ALTER TABLE event ALTER COLUMN life SET DEFAULT 0;
DROP TRIGGER event_place ON event;
CREATE TRIGGER event_place BEFORE INSERT ON event FOR EACH ROW WHEN (NEW.life = 0) EXECUTE FUNCTION note_event_place();
