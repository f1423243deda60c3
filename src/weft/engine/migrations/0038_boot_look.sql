-- Which worker asks a cloud for booted servers: one at a time.
CREATE TABLE boot_look (
    cloud text PRIMARY KEY,
    -- Until then no other worker asks: one is asking, or has just had an answer.
    until timestamptz NOT NULL,
    -- When the last answered request was sent.
    answered timestamptz
);
