#include "mail.hpp"

#include "support/stack_control.hpp"

#include <cstdio>
#include <sstream>

namespace skald::crash {
namespace {

class broker_mail final : public mail
{
public:
    broker_mail() : broker_{test::required("AMQP_URL")}
    {
        broker_.vhost = "crash-" + test::random_word();
        test::rabbitmqctl("add_vhost " + broker_.vhost);
        test::rabbitmqctl("set_permissions -p " + broker_.vhost + ' ' + broker_.user + " '.*' '.*' '.*'");
        hands_ = std::make_unique<test::amqp_hands>(broker_);
        hands_->capture_everything();
    }

    ~broker_mail() override
    {
        try {
            test::rabbitmqctl("delete_vhost " + broker_.vhost);
        }
        catch (std::exception const& error) {
            std::fprintf(stderr, "the virtual host %s stays behind: %s\n", broker_.vhost.c_str(), error.what());
        }
    }

    test::environment variables() const override { return {{"AMQP_URL", broker_.url()}}; }
    void begin() override {}
    std::vector<test::raw_message> take_captured() override { return hands_->take_captured(); }
    void send(test::raw_message const& message) override { hands_->send(message); }

    void cut_off_payments() override
    {
        hands_->unbind("skald.payments", "skald", "payments");
        hands_->unbind("e2e.capture", "skald", "payments");
    }
    void restore_payments() override
    {
        hands_->bind("skald.payments", "skald", "payments");
        hands_->bind("e2e.capture", "skald", "payments");
    }

    unsigned waiting_in(std::string_view service) override
    {
        return hands_->waiting_in("skald." + std::string{service});
    }
    bool is_empty() override
    {
        std::istringstream queues{
            test::rabbitmqctl("-q list_queues --no-table-headers -p " + broker_.vhost + " messages name")};
        for (std::string line; std::getline(queues, line);)
            if (line.find("\tskald.") != std::string::npos && !line.starts_with("0\t")) return false;
        return true;
    }
    bool is_asked_quickly() const override { return false; }

private:
    test::amqp_place broker_;
    std::unique_ptr<test::amqp_hands> hands_;
};

}  // namespace

std::unique_ptr<mail> mail_by_broker()
{
    return std::make_unique<broker_mail>();
}

}  // namespace skald::crash
