-- Which versions of which definitions processes of this service have had: what of an older one may be removed is asked at a saga's home
-- (`skald saga versions`), which knows by this that there was one, also when its last saga has expired.

CREATE TABLE skald.hosted_version (
    definition  text        COLLATE "C" NOT NULL,
    version     integer     NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    unreadable  text,  -- what the process that started last could not read of its sagas, and would park; NULL: nothing that it looked at
    CONSTRAINT hosted_version_once PRIMARY KEY (definition, version)
);
