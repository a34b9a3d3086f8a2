-- What was asked, what was signed and what was spent never changes: not by a service with a bug,
-- not by a hand in psql. Services say no earlier and more kindly; these triggers say it last.

CREATE OR REPLACE FUNCTION approvals_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: the row is evidence', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
END $$;

CREATE OR REPLACE FUNCTION approvals_keep_signed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free_columns text[] := TG_ARGV[0]::text[];
BEGIN
    IF (to_jsonb(OLD) - free_columns) IS DISTINCT FROM (to_jsonb(NEW) - free_columns) THEN
        RAISE EXCEPTION 'what was signed or asked in % cannot be edited', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION approvals_keep_spent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The receipt is written once, just after the one statement that decides who was first.
    IF OLD.consumed_at IS NOT NULL AND (OLD.receipt IS NOT NULL
        OR (to_jsonb(OLD) - 'receipt') IS DISTINCT FROM (to_jsonb(NEW) - 'receipt')) THEN
        RAISE EXCEPTION 'grant % was consumed; a tombstone is for ever', OLD.jti
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'grant_is_consumed_once';
    END IF;
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL THEN
        RAISE EXCEPTION 'grant % was revoked; it does not come back', OLD.jti
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'grant_stays_revoked';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER decision_keep BEFORE UPDATE ON approvals_decision
    FOR EACH ROW EXECUTE FUNCTION approvals_keep_signed('{counts}');
CREATE OR REPLACE TRIGGER decision_no_delete BEFORE DELETE ON approvals_decision
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse();

CREATE OR REPLACE TRIGGER resolution_keep BEFORE UPDATE ON approvals_resolution
    FOR EACH ROW EXECUTE FUNCTION approvals_keep_signed('{applied}');
CREATE OR REPLACE TRIGGER resolution_no_delete BEFORE DELETE ON approvals_resolution
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse();

CREATE OR REPLACE TRIGGER approvalrequest_keep BEFORE UPDATE ON approvals_approvalrequest
    FOR EACH ROW EXECUTE FUNCTION approvals_keep_signed(
        '{status,version,decided_at,used_at,claim_id,attempt_number}');
CREATE OR REPLACE TRIGGER approvalrequest_no_delete BEFORE DELETE ON approvals_approvalrequest
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse();

CREATE OR REPLACE TRIGGER grant_keep BEFORE UPDATE ON approvals_grant
    FOR EACH ROW EXECUTE FUNCTION approvals_keep_spent();
CREATE OR REPLACE TRIGGER grant_no_delete BEFORE DELETE ON approvals_grant
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse();

CREATE OR REPLACE TRIGGER decision_no_truncate BEFORE TRUNCATE ON approvals_decision
    FOR EACH STATEMENT EXECUTE FUNCTION approvals_refuse();
CREATE OR REPLACE TRIGGER resolution_no_truncate BEFORE TRUNCATE ON approvals_resolution
    FOR EACH STATEMENT EXECUTE FUNCTION approvals_refuse();
CREATE OR REPLACE TRIGGER grant_no_truncate BEFORE TRUNCATE ON approvals_grant
    FOR EACH STATEMENT EXECUTE FUNCTION approvals_refuse();

INSERT INTO approvals_grantepoch (id, epoch) VALUES (1, 1) ON CONFLICT DO NOTHING;
