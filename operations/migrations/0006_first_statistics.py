"""What the planner shall believe of new tables until they are analysed for the first time.

Without statistics Postgres takes every environment and namespace for rare, so an index that begins
with them looks as good as the unique one on the key, and each look-up by key reads the whole scope.
On a new instance, where all rows share a scope, that lasts until autovacuum comes by. Postgres 18
lets us say beforehand that the scope tells little; earlier versions wait for autovacuum.
"""

from django.db import migrations

STATISTICS = """
DO $$
DECLARE
    scoped record;
BEGIN
    IF to_regproc('pg_catalog.pg_restore_attribute_stats') IS NULL THEN
        RETURN;
    END IF;
    FOR scoped IN
        SELECT name, attribute
          FROM unnest(ARRAY['operations_operation', 'operations_run', 'operations_standing']) name,
               unnest(ARRAY['environment', 'namespace']) attribute
         WHERE NOT EXISTS (SELECT FROM pg_stats
                            WHERE schemaname = current_schema() AND tablename = name
                              AND attname = attribute)
    LOOP
        PERFORM pg_restore_attribute_stats(
            'schemaname', current_schema()::text, 'relname', scoped.name,
            'attname', scoped.attribute, 'inherited', false,
            'null_frac', 0::real, 'avg_width', 8, 'n_distinct', 1::real);
    END LOOP;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("operations", "0005_keys_lead_their_indexes")]

    operations = [migrations.RunSQL(STATISTICS, migrations.RunSQL.noop)]
