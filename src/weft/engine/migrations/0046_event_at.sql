-- Old events are found by their owners: by age, those that live owners keep were passed each time.
DROP INDEX event_at;
