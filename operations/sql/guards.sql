-- The database's own wall: what no code path, no console and no psql session may do by mistake.
-- Run by migration 0002 and safe to run again (everything is CREATE OR REPLACE).

-- 1. The transition table, the same as operations/states.py (a test compares the two).

CREATE OR REPLACE FUNCTION operations_edge_events(from_state text, to_state text)
RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE coalesce(from_state, '') || '>' || to_state
        WHEN '>PENDING'           THEN ARRAY['operation.recorded']
        WHEN 'PENDING>INVOKED'    THEN ARRAY['operation.invoked']
        WHEN 'PENDING>FAILED'     THEN ARRAY['operation.refused']
        WHEN 'PENDING>UNKNOWN'    THEN ARRAY['operation.in_doubt']
        WHEN 'PENDING>COMMITTED'  THEN ARRAY['operation.late_effect']
        WHEN 'INVOKED>COMMITTED'  THEN ARRAY['operation.committed']
        WHEN 'INVOKED>PENDING'    THEN ARRAY['operation.not_sent']
        WHEN 'INVOKED>FAILED'     THEN ARRAY['operation.failed']
        WHEN 'INVOKED>UNKNOWN'    THEN ARRAY['operation.in_doubt']
        WHEN 'UNKNOWN>COMMITTED'  THEN ARRAY['operation.reconciled']
        WHEN 'UNKNOWN>FAILED'     THEN ARRAY['operation.reconciled']
        WHEN 'UNKNOWN>PENDING'    THEN ARRAY['operation.released', 'operation.not_sent']
        WHEN 'FAILED>COMMITTED'   THEN ARRAY['operation.late_effect']
        WHEN 'FAILED>UNKNOWN'     THEN ARRAY['operation.in_doubt']
    END
$$;

-- Conditions of triggers are planned anew for every statement, the body of a function once per
-- connection: so conditions stay trivial and the rules stand in the functions.

CREATE OR REPLACE FUNCTION operations_refuse_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an operation begins PENDING at version 1, not % at %', NEW.state, NEW.version
        USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_transition_is_in_the_table';
END
$$;

CREATE OR REPLACE TRIGGER operations_guard_insert
    BEFORE INSERT ON operations_operation
    FOR EACH ROW WHEN (NEW.state <> 'PENDING' OR NEW.version <> 1)
    EXECUTE FUNCTION operations_refuse_insert();

CREATE OR REPLACE FUNCTION operations_guard_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> OLD.state AND operations_edge_events(OLD.state, NEW.state) IS NULL THEN
        RAISE EXCEPTION 'no transition leads from % to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_transition_is_in_the_table';
    END IF;
    IF NEW.version <> OLD.version + 1 AND (NEW.version <> OLD.version OR NEW.state <> OLD.state) THEN
        RAISE EXCEPTION 'version % cannot follow %', NEW.version, OLD.version
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_version_rises_by_one';
    END IF;
    IF NEW.closed < OLD.closed THEN
        RAISE EXCEPTION 'a closed intent stays closed'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_stays_closed';
    END IF;
    IF NEW.id <> OLD.id OR NEW.environment <> OLD.environment OR NEW.namespace <> OLD.namespace
        OR NEW.idem_key <> OLD.idem_key OR NEW.derived_key <> OLD.derived_key
        OR NEW.run_id <> OLD.run_id OR NEW.step <> OLD.step THEN
        RAISE EXCEPTION 'what names an operation never changes'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operation_identity_never_changes';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER operations_guard_update
    BEFORE UPDATE ON operations_operation
    FOR EACH ROW EXECUTE FUNCTION operations_guard_update();

CREATE OR REPLACE FUNCTION operations_guard_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.from_state IS DISTINCT FROM NEW.to_state
        AND NOT NEW.type = ANY (
            coalesce(operations_edge_events(NEW.from_state, NEW.to_state), '{}')) THEN
        RAISE EXCEPTION 'event % does not lead from % to %', NEW.type, NEW.from_state, NEW.to_state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'event_matches_its_transition';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER operations_guard_event
    BEFORE INSERT ON operations_event
    FOR EACH ROW WHEN (NEW.to_state IS NOT NULL) EXECUTE FUNCTION operations_guard_event();

-- 2. Append-only tables. TRUNCATE is refused too; test suites that must empty the tables do so as
-- a superuser under session_replication_role = replica, which no service ever sets.

CREATE OR REPLACE FUNCTION operations_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
END
$$;

-- Erasable rows: the body may go, its digest stays; a record may be tied to its operation later.
CREATE OR REPLACE FUNCTION operations_allow_erasure_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    erasable text[] := TG_ARGV[0]::text[];
BEGIN
    IF (to_jsonb(NEW) - erasable) IS DISTINCT FROM (to_jsonb(OLD) - erasable)
        OR (NEW.body IS DISTINCT FROM OLD.body AND NEW.body IS NOT NULL) THEN
        RAISE EXCEPTION 'in % a body may be erased and nothing else changed', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
    END IF;
    RETURN NEW;
END
$$;

-- Operations are never deleted, so that events and payloads need no foreign key to say so.
CREATE OR REPLACE TRIGGER operations_operation_no_delete
    BEFORE DELETE ON operations_operation
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();

CREATE OR REPLACE TRIGGER operations_event_append_only
    BEFORE UPDATE OR DELETE ON operations_event
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_event_no_truncate
    BEFORE TRUNCATE ON operations_event
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

CREATE OR REPLACE TRIGGER operations_sealedevent_append_only
    BEFORE UPDATE OR DELETE ON operations_sealedevent
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_sealedevent_no_truncate
    BEFORE TRUNCATE ON operations_sealedevent
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

CREATE OR REPLACE TRIGGER operations_payload_erasable
    BEFORE UPDATE ON operations_payload
    FOR EACH ROW EXECUTE FUNCTION operations_allow_erasure_only('{body,erased_at}');
CREATE OR REPLACE TRIGGER operations_payload_no_delete
    BEFORE DELETE ON operations_payload
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_payload_no_truncate
    BEFORE TRUNCATE ON operations_payload
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

CREATE OR REPLACE TRIGGER operations_record_erasable
    BEFORE UPDATE ON operations_record
    FOR EACH ROW EXECUTE FUNCTION operations_allow_erasure_only(
        '{body,erased_at,operation_id,idem_key,status,code}');
CREATE OR REPLACE TRIGGER operations_record_no_delete
    BEFORE DELETE ON operations_record
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_record_no_truncate
    BEFORE TRUNCATE ON operations_record
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

-- 3. The narrow open table, and a wake-up for those who wait.
-- A NOTIFY in every commit would cost about half of the write rate, so it is sent only where a
-- Waiter row stands; waiters register before they read, and read again every two seconds.

CREATE OR REPLACE FUNCTION operations_open_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO operations_standing
        (operation_id, environment, namespace, state, tool, waiting_on, gate, due_at, since)
    VALUES (NEW.id, NEW.environment, NEW.namespace, NEW.state, NEW.tool, NEW.waiting_on, NEW.gate,
            coalesce(NEW.lease_expires_at, NEW.waiting_until), NEW.updated_at);
    RETURN NULL;
END
$$;

-- A row that is born waiting for its lease is granted in the same transaction: it is entered then.
CREATE OR REPLACE TRIGGER operations_open_operation
    AFTER INSERT ON operations_operation
    FOR EACH ROW WHEN (NEW.waiting_on <> 'lease') EXECUTE FUNCTION operations_open_operation();

CREATE OR REPLACE FUNCTION operations_project_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'COMMITTED' THEN
        IF OLD.state <> 'COMMITTED' THEN
            DELETE FROM operations_standing WHERE operation_id = NEW.id;
        END IF;
    ELSIF OLD.state = 'PENDING' AND OLD.waiting_on = 'lease' THEN
        INSERT INTO operations_standing
            (operation_id, environment, namespace, state, tool, waiting_on, gate, due_at, since)
        VALUES (NEW.id, NEW.environment, NEW.namespace, NEW.state, NEW.tool, NEW.waiting_on,
                NEW.gate, coalesce(NEW.lease_expires_at, NEW.waiting_until), NEW.updated_at);
    ELSIF NEW.state <> OLD.state OR NEW.gate <> OLD.gate
        OR NEW.waiting_on IS DISTINCT FROM OLD.waiting_on
        OR NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at
        OR NEW.waiting_until IS DISTINCT FROM OLD.waiting_until THEN
        UPDATE operations_standing
           SET state = NEW.state, waiting_on = NEW.waiting_on, gate = NEW.gate,
               due_at = coalesce(NEW.lease_expires_at, NEW.waiting_until),
               since = CASE WHEN NEW.state = OLD.state THEN since ELSE NEW.updated_at END
         WHERE operation_id = NEW.id;
    END IF;
    IF NEW.version <> OLD.version
        AND EXISTS (SELECT FROM operations_waiter WHERE operation_id = NEW.id) THEN
        PERFORM pg_notify('operation_changed', NEW.id || ':' || NEW.version);
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER operations_project_operation
    AFTER UPDATE ON operations_operation
    FOR EACH ROW EXECUTE FUNCTION operations_project_operation();

-- 4. Room for HOT updates in the wide row and in the rows that change once or twice.

ALTER TABLE operations_operation SET (fillfactor = 80);
ALTER TABLE operations_attempt SET (fillfactor = 80);
ALTER TABLE operations_standing SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
                                     autovacuum_vacuum_threshold = 500);
