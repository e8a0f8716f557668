-- The ledger, version 2: a DuckDB projection of a run's journals.
-- The big tables have no keys and no indexes; rows lie in the order of piece, step and rank, so
-- that a step is found by the minimum and maximum that DuckDB keeps for each row group.

CREATE TABLE facts (name VARCHAR NOT NULL, value VARCHAR NOT NULL);

-- How far each journal has been read; changes in the transaction that inserts the rows.
CREATE TABLE journals (
    journal VARCHAR NOT NULL,         -- file name in the run's journal directory
    read_bytes BIGINT NOT NULL
);

-- Journal bytes that hold no valid record although later ones do, or a record without sense.
CREATE TABLE journal_damage (
    journal VARCHAR NOT NULL,
    first_byte BIGINT NOT NULL,
    end_byte BIGINT NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE pieces (
    piece BIGINT NOT NULL,
    parent BIGINT,
    fork_step BIGINT NOT NULL,        -- the parent owns steps up to and including this one
    reason VARCHAR NOT NULL,          -- start, restart, rewind or trial
    dp_size BIGINT NOT NULL,
    replicas BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    mode VARCHAR NOT NULL,            -- compact or hold
    record VARCHAR NOT NULL,          -- documents or runs
    launch VARCHAR NOT NULL,
    created VARCHAR NOT NULL,
    revision_digest VARCHAR           -- content of the revision; NULL for revision 0
);

-- The steps that each piece owns in the history of the run's head; last_step NULL is still open.
CREATE TABLE lineage (piece BIGINT NOT NULL, first_step BIGINT NOT NULL, last_step BIGINT);

-- One row for each delivered record: one step of one rank and replica.
CREATE TABLE deliveries (
    piece BIGINT NOT NULL,
    step BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    replica BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    first_position BIGINT NOT NULL,   -- raw positions [first, end) that the whole step used up
    end_position BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    segments BIGINT NOT NULL,
    digest BLOB NOT NULL,             -- 16 bytes, sum of the sample digests modulo 2^128
    micros BIGINT NOT NULL,
    target_tokens BIGINT NOT NULL,
    blanked_tokens BIGINT NOT NULL,
    mode VARCHAR NOT NULL,
    record VARCHAR NOT NULL,
    time_ns BIGINT NOT NULL
);

-- The sample positions of each delivered record, as runs of consecutive ones (replica 0).
CREATE TABLE sample_runs (
    piece BIGINT NOT NULL,
    step BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    first_position BIGINT NOT NULL,
    samples BIGINT NOT NULL
);

-- The pieces of documents in each sample (replica 0, record = documents), as the view `segments`
-- shows them. Most segments start at token 0; as a list that holds only the others, the start takes
-- a third of the space.
CREATE TABLE packed_segments (
    piece BIGINT NOT NULL,
    step BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sample_position BIGINT NOT NULL,
    doc BIGINT NOT NULL,
    starts BIGINT[] NOT NULL,         -- empty for 0
    token_count BIGINT NOT NULL
);

-- Token numbers are within the document; the separator after it counts as its last token.
CREATE VIEW segments AS
SELECT piece, step, rank, epoch, sample_position, doc, coalesce(starts[1], 0) AS token_start,
       token_count
FROM packed_segments;

CREATE TABLE completions (
    piece BIGINT NOT NULL, step BIGINT NOT NULL, rank BIGINT NOT NULL, replica BIGINT NOT NULL,
    time_ns BIGINT NOT NULL
);

CREATE TABLE signals (
    piece BIGINT NOT NULL, step BIGINT NOT NULL, rank BIGINT NOT NULL, replica BIGINT NOT NULL,
    name VARCHAR NOT NULL, value DOUBLE, text VARCHAR, time_ns BIGINT NOT NULL
);

CREATE TABLE sample_losses (
    piece BIGINT NOT NULL, step BIGINT NOT NULL, rank BIGINT NOT NULL,
    sample BIGINT NOT NULL,           -- index in the order of delivery
    loss DOUBLE
);

CREATE TABLE checkpoints (
    piece BIGINT NOT NULL, step BIGINT NOT NULL, rank BIGINT NOT NULL, replica BIGINT NOT NULL,
    path VARCHAR, cursor VARCHAR NOT NULL, time_ns BIGINT NOT NULL
);

CREATE TABLE events (
    piece BIGINT NOT NULL, step BIGINT NOT NULL, rank BIGINT NOT NULL, replica BIGINT NOT NULL,
    event VARCHAR, content VARCHAR NOT NULL, time_ns BIGINT NOT NULL
);

-- Every recorded segment, on whatever branch.
CREATE VIEW all_step_documents AS
SELECT step, piece, rank, epoch, sample_position, doc, token_start,
       token_start + token_count AS token_end
FROM segments;

-- The segments in the history of the head: what the run as it stands was trained on.
CREATE VIEW step_documents AS
SELECT s.step, s.piece, s.rank, s.epoch, s.sample_position, s.doc, s.token_start,
       s.token_start + s.token_count AS token_end
FROM segments s
JOIN lineage l ON s.piece = l.piece AND s.step >= l.first_step
              AND s.step <= coalesce(l.last_step, 9223372036854775807);

CREATE VIEW document_steps AS
SELECT doc, step, piece, rank, epoch, sample_position, token_start, token_end
FROM step_documents;

-- One row for each step of each piece; complete when every data-parallel rank has recorded it,
-- completed when the trainer reported it on every one.
CREATE VIEW all_steps AS
SELECT d.step, d.piece, d.epoch, d.first_position, d.end_position, d.ranks, p.dp_size,
       d.ranks >= p.dp_size AS complete, coalesce(c.ranks, 0) >= p.dp_size AS completed,
       coalesce(c.ranks, 0) AS completed_ranks, d.samples, d.segments,
       d.target_tokens, d.blanked_tokens, d.mode, d.record, p.revision, d.time_ns,
       make_timestamp(d.time_ns // 1000) AS time  -- of the first delivery, UTC
FROM (
    SELECT piece, step, min(epoch) AS epoch, min(first_position) AS first_position,
           max(end_position) AS end_position, count(DISTINCT rank) AS ranks,
           sum(samples)::BIGINT AS samples, sum(segments)::BIGINT AS segments,
           sum(target_tokens)::BIGINT AS target_tokens,
           sum(blanked_tokens)::BIGINT AS blanked_tokens,
           any_value(mode) AS mode, any_value(record) AS record, min(time_ns) AS time_ns
    FROM deliveries WHERE replica = 0 GROUP BY piece, step
) d
JOIN pieces p ON p.piece = d.piece
LEFT JOIN (
    SELECT piece, step, count(DISTINCT rank) AS ranks FROM completions GROUP BY piece, step
) c    ON c.piece = d.piece AND c.step = d.step;

CREATE VIEW effective_steps AS
SELECT s.*
FROM all_steps s
JOIN lineage l ON s.piece = l.piece AND s.step >= l.first_step
              AND s.step <= coalesce(l.last_step, 9223372036854775807);

-- Long form of the telemetry in the history of the head; telemetry_wide has a column per name.
CREATE VIEW telemetry AS
SELECT s.step, s.piece, s.rank, s.name, s.value
FROM signals s
JOIN lineage l ON s.piece = l.piece AND s.step >= l.first_step
              AND s.step <= coalesce(l.last_step, 9223372036854775807)
WHERE s.replica = 0;

CREATE VIEW telemetry_wide AS SELECT step, piece FROM telemetry GROUP BY step, piece;
