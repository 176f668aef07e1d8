package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// defaultFreeze is the default priority of "peers freeze", as in kopf.
const defaultFreeze = 100

func newPeers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Inspect, pause and resume operators that share a peering object",
		Long: `Operators that share a peering object write records into it. The operator with the highest priority works, and the others pause.
A user can write a record with "freeze". All operators with the same or a lower priority then pause until the record expires or is removed.

Environment variables can set the flags. The name of a variable is KOPF_, the command, _ and the flag, in upper case. For example,
KOPF_FREEZE_PRIORITY sets --priority of "freeze". Two names differ. The variable of --namespace ends with NAMESPACES, and spaces separate
its values. The variable of --all-namespaces ends with CLUSTERWIDE. A flag overrides its variable.`,
	}
	cmd.AddCommand(newPeersList(), newPeersFreeze(), newPeersResume())
	return cmd
}

func newPeersList() *cobra.Command {
	var where access
	var form output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the operators and their priorities",
		Example: `  # Operators for the whole cluster:
  kopf peers list
  # Operators in all namespaces of a team, for scripts:
  kopf peers list -n 'team-*' -o json`,
		Args:    cobra.NoArgs,
		PreRunE: fromEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, where, form, func(ctx context.Context, c *peering.Client, target peering.Target) ([]peering.Object, error) {
				return c.List(ctx, target)
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	return cmd
}

func newPeersFreeze() *cobra.Command {
	var where access
	var form output
	var record peering.Record
	var identity string
	var dev bool
	cmd := &cobra.Command{
		Use:   "freeze",
		Short: "Pause operators",
		Long: `Write a record into the peering objects. Operators with the same or a lower priority pause until the record expires or "resume" removes
it.`,
		Example: `  # Pause all operators with a priority of at most 100 for an hour:
  kopf peers freeze --lifetime 1h --message "moving the databases"
  # Pause all operators of one namespace, including those that run with --dev:
  kopf peers freeze -n shop --priority 1000 --lifetime 600`,
		Args:    cobra.NoArgs,
		PreRunE: fromEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dev {
				record.Priority = peering.DevPriority
			}
			if record.Lifetime < time.Second {
				return fmt.Errorf("--lifetime must be at least 1s, got %s", record.Lifetime)
			}
			if record.Lifetime > peering.MaxLifetime {
				return fmt.Errorf("--lifetime must be at most %s, got %s", peering.MaxLifetime, record.Lifetime)
			}
			return run(cmd, where, form, func(ctx context.Context, c *peering.Client, target peering.Target) ([]peering.Object, error) {
				return c.Freeze(ctx, target, identityOr(identity), record)
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	bindIdentity(cmd, &identity)
	cmd.Flags().IntVarP(&record.Priority, "priority", "p", defaultFreeze, "priority of the record; operators with this or a lower priority pause")
	cmd.Flags().BoolVar(&dev, "dev", false, fmt.Sprintf("set the priority to %d; overrides --priority", peering.DevPriority))
	cmd.Flags().VarP((*lifetime)(&record.Lifetime), "lifetime", "t", "duration of the pause, such as 600 (seconds), 10m or 1h (required)")
	cmd.Flags().StringVarP(&record.Message, "message", "m", "", "reason for the pause; operators log it")
	if err := cmd.MarkFlagRequired("lifetime"); err != nil {
		panic(err) // MarkFlagRequired cannot fail, because the flag exists
	}
	return cmd
}

func newPeersResume() *cobra.Command {
	var where access
	var form output
	var identity string
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Resume paused operators",
		Long:  `Remove the record that "freeze" has written. With --id, remove the record of another identity.`,
		Example: `  # Remove your own record:
  kopf peers resume
  # Remove the record of another user; "list" shows the identities:
  kopf peers resume --id ann@laptop`,
		Args:    cobra.NoArgs,
		PreRunE: fromEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, where, form, func(ctx context.Context, c *peering.Client, target peering.Target) ([]peering.Object, error) {
				return c.Resume(ctx, target, identityOr(identity))
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	bindIdentity(cmd, &identity)
	return cmd
}

func bindIdentity(cmd *cobra.Command, identity *string) {
	cmd.Flags().StringVarP(identity, "id", "i", "", "identity of the record (default: user@host)")
}

func identityOr(identity string) string {
	if identity != "" {
		return identity
	}
	return peering.Whoami()
}

// run calls a function for the peering objects and prints the objects that it returns.
func run(cmd *cobra.Command, where access, form output,
	do func(context.Context, *peering.Client, peering.Target) ([]peering.Object, error),
) error {
	target, err := where.target()
	if err != nil {
		return err
	}
	if err := form.check(); err != nil {
		return err
	}
	client, err := where.client()
	if err != nil {
		return err
	}
	objects, err := do(cmd.Context(), client, target)
	if len(objects) > 0 {
		if err := form.print(cmd.OutOrStdout(), objects, time.Now()); err != nil {
			return err
		}
	}
	return err
}

// A lifetime is a flag value: a number of seconds, as in kopf, or a duration.
type lifetime time.Duration

func (l *lifetime) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

func (l *lifetime) Type() string { return "duration" }

func (l *lifetime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if _, numeric := strconv.Atoi(strings.TrimSpace(text)); numeric == nil {
		d, err = time.ParseDuration(strings.TrimSpace(text) + "s")
	}
	if err != nil {
		return fmt.Errorf("use seconds, such as 600, or a duration, such as 10m")
	}
	*l = lifetime(d)
	return nil
}
