-- Old events are found by their owners, not by age: that scanned the events that live owners keep each time.
DROP INDEX event_at;
