// A service whose one route inserts one row: what bench/entry.sh puts under load.
#include <skald/skald.hpp>

namespace {

struct row
{
    int n{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(row, n)

skald::http::response insert(skald::http::request_context& ctx)
{
    ctx.sql("INSERT INTO bench_row (n) VALUES ($1)", ctx.json<row>().n);
    return skald::http::json_response(201, {{"inserted", 1}});
}

}  // namespace

int main(int argc, char** argv)
{
    return skald::run_service("bench", argc, argv, [](skald::worker& worker) {
        worker.migrate("0001_bench", "CREATE TABLE bench_row (id bigserial PRIMARY KEY, n int NOT NULL);")
            .post("/rows", insert);
    });
}
