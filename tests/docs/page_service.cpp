// What stands on a page, as a service: its blocks run one after the other, and then the worker
// that they have furnished.
#include SKALD_PAGE

#include <cstdlib>

int main(int argc, char** argv)
{
    return skald::run_service(SKALD_SERVICE, argc, argv, [](skald::worker& worker) {
        pqxx::connection connection{std::getenv("DATABASE_URL")};
        run_all(connection, worker);
    });
}
