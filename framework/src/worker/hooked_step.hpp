// A user's step with the hooks of its service around it.
#pragma once

#include <skald/detail/external_work.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/step_hooks.hpp>

#include <memory>
#include <string>

namespace skald::worker_detail {

class hooked_step final : public detail::hosted_step
{
public:
    /// `hooks` may still be set until the first delivery.
    hooked_step(std::string definition, std::string name, std::unique_ptr<detail::hosted_step> step,
                std::shared_ptr<step_hooks const> hooks);
    ~hooked_step() override;

    std::unique_ptr<detail::step_run> read(std::string_view body) const override;
    bool does_batches() const override { return step_->does_batches(); }
    batch_outcome execute_batch(std::span<detail::member_run const> all) const override;
    detail::external_work const* external(bool is_forward) const override;

private:
    std::string definition_;
    std::string name_;
    std::unique_ptr<detail::hosted_step> step_;
    std::shared_ptr<step_hooks const> hooks_;
    std::unique_ptr<detail::external_work> forward_, back_;  // null where there is none
};

}  // namespace skald::worker_detail
