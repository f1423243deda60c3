-- Who asks a cloud which servers have booted: one of all workers at a time.
CREATE TABLE boot_look (
    cloud text PRIMARY KEY,
    -- Until then nobody else asks: somebody is asking, or has just been answered.
    until timestamptz NOT NULL,
    -- When the last question was asked that was answered.
    answered timestamptz
);
