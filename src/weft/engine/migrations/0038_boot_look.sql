-- The worker that asks a cloud which servers have booted: one of all at a time.
CREATE TABLE boot_look (
    cloud text PRIMARY KEY,
    -- Until then no other worker asks: one is asking, or has just had an answer.
    until timestamptz NOT NULL,
    -- When the last question was asked that was answered.
    answered timestamptz
);
