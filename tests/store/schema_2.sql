-- Tables of a store as schema version 2 made them.
CREATE TABLE meta (
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE TABLE texts (
    digest BLOB NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (digest)
);

CREATE TABLE records (
    id INTEGER NOT NULL,
    group_key TEXT NOT NULL,
    group_digest BLOB NOT NULL,
    schedule_json TEXT NOT NULL,
    profile_id TEXT NOT NULL,
    target TEXT NOT NULL,
    network TEXT NOT NULL,
    source TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    cycles INTEGER NOT NULL,
    energy_fj INTEGER NOT NULL,
    dram_bytes INTEGER NOT NULL,
    counters_digest BLOB NOT NULL,
    counters BLOB NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX records_by_source ON records (profile_id, source);

CREATE UNIQUE INDEX calibrated_once ON records (profile_id, group_key, schedule_json) WHERE source = 'calibrate';

CREATE TABLE models (
    id INTEGER NOT NULL,
    profile_id TEXT NOT NULL,
    feature_version INTEGER NOT NULL,
    metrics_json TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    blob BLOB NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX models_by_profile ON models (profile_id);

CREATE TABLE profiles (
    profile_id TEXT NOT NULL,
    name TEXT NOT NULL,
    spec_json TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (profile_id)
);
