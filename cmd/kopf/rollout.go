package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

func newRollout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show, halt and resume rollouts of new revisions",
		Long: `An operator with the option WithRollout takes its objects to new revisions of its handlers in portions. The state of these rollouts is in a
ConfigMap in the namespace of the operator. These commands read and change only this ConfigMap.`,
	}
	cmd.AddCommand(newRolloutStatus(), newRolloutHalt(), newRolloutResume())
	return cmd
}

func newRolloutStatus() *cobra.Command {
	var where rolloutPlace
	var form output
	cmd := &cobra.Command{
		Use:   "status [KIND]",
		Short: "Show how far the rollouts are",
		Long: `For each kind, and with sharding for each shard, show the revisions, the numbers of objects, and whether the rollout is halted.

Failed objects are also among those that are done or, past their deadline, among the running ones. Objects that have opted out are in no
number. The operator writes the numbers when they change, at most every 10 seconds. If they are old, nothing happens, or the operator is not
running. kopf why says what a single object is waiting for.`,
		Example: `  # All rollouts of an operator in the namespace shop-system:
  kopf rollout status -n shop-system
  # The rollout of one kind, for scripts:
  kopf rollout status databases -n shop-system -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(form.check(), where.check()); err != nil {
				return err
			}
			t, err := where.open()
			if err != nil {
				return err
			}
			return t.status(cmd, form, strings.Join(args, ""))
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	return cmd
}

func newRolloutHalt() *cobra.Command {
	var where rolloutPlace
	var form output
	var message string
	cmd := &cobra.Command{
		Use:   "halt KIND",
		Short: "Halt a rollout",
		Long: `The operator begins with no more objects until "resume", also after a restart. Objects that have begun are finished, and changes that users
make are handled. A halt holds only for the revisions that "status" shows, and for all shards.`,
		Example: `  kopf rollout halt databases -n shop-system --message "the backend is full"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(form.check(), where.check(), checkMessage(message)); err != nil {
				return err
			}
			return where.change(cmd, form, args[0], func(ctx context.Context, t *rolloutTarget, kind string, _ rollout.State) error {
				return t.explain(rollout.Halt(ctx, t.c, t.key, kind, t.user(ctx), cmp.Or(message, noReason)))
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	cmd.Flags().StringVarP(&message, "message", "m", "", `reason for the halt; "status", "kopf why" and the log of the operator show it`)
	return cmd
}

// noReason is the message of a halt without --message.
const noReason = "no reason given"

// maxMessage is the maximum length of --message, which is part of why each object waits.
const maxMessage = 1024

func checkMessage(message string) error {
	if len(message) > maxMessage {
		return fmt.Errorf("--message has %d bytes: use at most %d", len(message), maxMessage)
	}
	return nil
}

func newRolloutResume() *cobra.Command {
	var where rolloutPlace
	var form output
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "resume KIND",
		Short: "Resume a halted rollout",
		Long: `Ask the operator to resume a rollout that has halted itself or that "halt" has halted. Objects that have failed before no longer count as
failures. They are not handled again: use kopf retry.

With --wait, the command waits until the operator has answered.`,
		Example: `  kopf rollout resume databases -n shop-system --wait`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(form.check(), where.check()); err != nil {
				return err
			}
			if timeout <= 0 {
				return fmt.Errorf("--timeout must be positive, got %s", timeout)
			}
			if cmd.Flags().Changed("timeout") && !wait {
				return errors.New("--timeout is for --wait: add it")
			}
			return where.change(cmd, form, args[0], func(ctx context.Context, t *rolloutTarget, kind string, state rollout.State) error {
				if state.Halted == nil {
					return fmt.Errorf("the rollout of %s is not halted: kopf rollout status shows its state", kind)
				}
				if err := rollout.Resume(ctx, t.c, t.key, kind); err != nil || !wait {
					return t.explain(err)
				}
				return t.awaitAnswer(ctx, kind, timeout)
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the operator has resumed the rollout")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long --wait waits")
	return cmd
}

// change changes the rollout of a kind, and prints its state after that.
func (p *rolloutPlace) change(cmd *cobra.Command, form output, name string, do func(context.Context, *rolloutTarget, string, rollout.State) error) error {
	t, err := p.open()
	if err != nil {
		return err
	}
	found, err := t.read(cmd.Context())
	if err != nil {
		return err
	}
	if len(found.Data) == 0 {
		return errors.New(t.noRollout(found, ""))
	}
	kind, err := t.kind(found, name)
	if err != nil {
		return err
	}
	if _, exists := found.Data[kind]; !exists {
		return errors.New(t.noRollout(found, kind))
	}
	state, err := rolloutState(found, kind)
	if err != nil {
		return err
	}
	if err := do(cmd.Context(), t, kind, state); err != nil {
		return err
	}
	return t.status(cmd, form, kind)
}

// status prints the rollout of a kind or, without a name, of all kinds.
func (t *rolloutTarget) status(cmd *cobra.Command, form output, name string) error {
	found, err := t.read(cmd.Context())
	if err != nil {
		return err
	}
	kinds, kind := slices.Sorted(maps.Keys(found.Data)), ""
	if name != "" {
		if kind, err = t.kind(found, name); err != nil {
			return err
		}
		kinds = slices.DeleteFunc(kinds, func(other string) bool { return other != kind })
	}
	lines, err := rolloutLines(found, kinds)
	if len(kinds) == 0 {
		if cmd.PrintErrln(t.noRollout(found, kind)); form == "table" {
			return nil
		}
	}
	now := time.Now()
	return errors.Join(form.write(cmd.OutOrStdout(), lines, func() [][]string { return rolloutRows(lines, now) }), err)
}
