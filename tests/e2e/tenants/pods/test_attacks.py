"""The attacks of the folder above once more: here the scheduler is a pod of the image."""

import pytest

from tests.e2e.tenants.test_absurd_values import (
    test_depth_harms_nobody,
    test_holder_resized_to_an_absurd_amount_keeps_its_tiles,
    test_long_text_is_cut_where_it_is_said,
    test_nobody_else_is_harmed,
    test_pod_of_endless_rules_is_told_so_and_harms_nobody,
)
from tests.e2e.tenants.test_corpus import kinds, test_whatever_is_stored_can_be_read
from tests.e2e.tenants.test_forged_plans import (
    test_config_map_of_a_plans_name_is_not_taken_for_a_plan,
    test_plan_from_before_the_policy_gives_no_more_than_is_asked_for,
)
from tests.e2e.tenants.test_poisoned_plans import (
    test_plan_of_nonsense_from_before_the_policy_refuses_that_gang_alone,
    test_quota_of_no_config_maps_refuses_that_gang_alone,
)
from tests.e2e.tenants.test_starvation import (
    test_gangs_of_unlike_pods_that_never_fit_keep_nobody_waiting,
    wanted,
)

pytestmark = pytest.mark.thorough

__all__ = [
    "kinds",
    "test_config_map_of_a_plans_name_is_not_taken_for_a_plan",
    "test_depth_harms_nobody",
    "test_gangs_of_unlike_pods_that_never_fit_keep_nobody_waiting",
    "test_holder_resized_to_an_absurd_amount_keeps_its_tiles",
    "test_long_text_is_cut_where_it_is_said",
    "test_nobody_else_is_harmed",
    "test_pod_of_endless_rules_is_told_so_and_harms_nobody",
    "test_plan_of_nonsense_from_before_the_policy_refuses_that_gang_alone",
    "test_plan_from_before_the_policy_gives_no_more_than_is_asked_for",
    "test_quota_of_no_config_maps_refuses_that_gang_alone",
    "test_whatever_is_stored_can_be_read",
    "wanted",
]
