#include "business.hpp"

#include <functional>
#include <unordered_set>

namespace bench_baseline {
namespace {

using works = std::vector<step_work*>;

template <class Of>
parameter column(works const& steps, Of const& of)
{
    std::vector<std::string> values;
    for (auto const* work : steps) values.push_back(std::invoke(of, *work));
    return text_array(values);
}

void create_or_cancel(database& tables, works const& create, works const& cancel)
{
    if (!cancel.empty()) tables.run("cancel_orders", {column(cancel, &step_work::order_id)});
    if (!create.empty())
        tables.run("create_orders", {column(create, &step_work::order_id), column(create, &step_work::customer),
                                     column(create, &step_work::sku), column(create, &step_work::quantity),
                                     column(create, &step_work::cents)});
}

// --- The bench's own saga -------------------------------------------------------------------------------------------

void do_each(database& tables, role const& here, step_work const& work)
{
    if (here.name == "orders")
        tables.run("create_order",
                   {text(work.order_id), text(work.customer), text(work.sku), text(work.quantity), text(work.cents)});
    else if (here.name == "shipping") tables.run("ship", {text(work.order_id), text(work.sku), text(work.quantity)});
    else tables.run("charge", {text(work.order_id), text(work.customer), text(work.cents)});
}

void do_all(database& tables, role const& here, works const& all)
{
    if (here.name == "orders") return create_or_cancel(tables, all, {});
    auto const ids = column(all, &step_work::order_id);
    if (here.name == "payments")
        tables.run("charge_all", {ids, column(all, &step_work::customer), column(all, &step_work::cents)});
    else tables.run("ship_all", {ids, column(all, &step_work::sku), column(all, &step_work::quantity)});
}

// --- The order example ----------------------------------------------------------------------------------------------

void reject_others(works const& all, rows const& served)
{
    std::unordered_set<std::string_view> ids;
    for (int i = 0; i < served.size(); ++i) ids.insert(served.at(i, 0));
    for (auto* work : all) work->rejected = !ids.contains(work->order_id);
}

void do_shop(database& tables, role const& here, works const& all)
{
    auto const ids = column(all, &step_work::order_id);
    if (here.name == "payments")
        return reject_others(
            all, tables.run("pay_wallets",
                            {ids, column(all, &step_work::customer), column(all, &step_work::cents),
                             column(all, [](step_work const& work) { return work.back ? "refund" : "charge"; })}));
    if (here.name == "shipping")
        return reject_others(
            all, tables.run("take_stock", {ids, column(all, &step_work::sku), column(all, &step_work::quantity)}));
    works create, cancel, confirm;
    for (auto* work : all) (work->back ? cancel : work->place == 0 ? create : confirm).push_back(work);
    create_or_cancel(tables, create, cancel);
    if (!confirm.empty()) tables.run("confirm_orders", {column(confirm, &step_work::order_id)});
}

}  // namespace

void do_business(database& tables, role const& here, bool each, std::vector<step_work>& steps)
{
    works to_do;
    for (auto& work : steps)
        if (work.fresh) to_do.push_back(&work);
    if (to_do.empty()) return;
    if (here.shop) return do_shop(tables, here, to_do);
    if (!each) return do_all(tables, here, to_do);
    for (auto const* work : to_do) do_each(tables, here, *work);
}

}  // namespace bench_baseline
