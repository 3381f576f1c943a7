"""What a COMMIT's warning means: an absent standby's, and a user's own."""

from __future__ import annotations

import psycopg
import pytest
from payments_shop import Shop, charge_message, message, shop, template, url  # noqa: F401
from standby import AbsentStandby

import skald

WARNS = """
    CREATE OR REPLACE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'low'; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER warn AFTER UPDATE ON wallet DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()"""


def test_a_commit_that_was_made_to_stop_waiting_for_a_standby_is_not_believed(shop: Shop, url: str, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    rejected = message("charge", 2, key="rejected")
    with AbsentStandby(url) as standby:
        shop.raises = [lambda ctx, order: None, skald.Reject("no money")]
        for one in (charge_message, rejected, charge_message, rejected):  # and what is there of them is not, later
            with pytest.raises(psycopg.OperationalError, match="possibly not durably"):
                standby.cancelled(lambda: shop.participant.process(one))
    assert [shop.participant.process(one) for one in (charge_message, rejected)] == ["step.duplicate"] * 2
    assert " failed" not in caplog.text  # nor is it the step's fault
    assert (shop.cents, len(shop.ran)) == (90, 2)


def test_a_commit_in_which_a_deferred_trigger_warns_is_believed(shop: Shop, url: str) -> None:  # noqa: F811
    with psycopg.connect(url) as c:
        c.execute(WARNS)
    assert shop.participant.process(charge_message) == "step.completed"
