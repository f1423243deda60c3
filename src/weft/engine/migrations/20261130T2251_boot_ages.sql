-- Flavor -> seconds after which none of its servers was seen booted yet, so that a cloud isn't asked about them before.
ALTER TABLE boot_look ADD COLUMN earliest jsonb NOT NULL DEFAULT '{}';
