-- The Merkle log's wall: nodes and checkpoints are for ever, a log only grows. Safe to run again.

CREATE OR REPLACE TRIGGER operations_ledgernode_append_only
    BEFORE UPDATE OR DELETE ON operations_ledgernode
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_ledgernode_no_truncate
    BEFORE TRUNCATE ON operations_ledgernode
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

CREATE OR REPLACE TRIGGER operations_checkpoint_append_only
    BEFORE UPDATE OR DELETE ON operations_checkpoint
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
CREATE OR REPLACE TRIGGER operations_checkpoint_no_truncate
    BEFORE TRUNCATE ON operations_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION operations_refuse_change();

-- A log keeps its name and never becomes shorter.
CREATE OR REPLACE FUNCTION operations_guard_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.origin <> OLD.origin OR NEW.size < OLD.size THEN
        RAISE EXCEPTION 'the log % only grows', OLD.origin
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledgerlog_only_grows';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER operations_ledgerlog_only_grows
    BEFORE UPDATE ON operations_ledgerlog
    FOR EACH ROW EXECUTE FUNCTION operations_guard_log();
CREATE OR REPLACE TRIGGER operations_ledgerlog_no_delete
    BEFORE DELETE ON operations_ledgerlog
    FOR EACH ROW EXECUTE FUNCTION operations_refuse_change();
