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

// defaultFreeze is the priority of a freeze: kopf's. [wire]
const defaultFreeze = 100

func newPeers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Operators that know of each other",
		Long: `Operators that share a peering object know of each other by their records in it. The one with the
highest priority works, the others pause. A person can have a record there, too: then all operators of a
lower priority pause, until its lifetime is over, or until it is removed.

What is not given by flags is taken from variables: KOPF_FREEZE_PRIORITY for --priority of freeze, KOPF_RESUME_ID for
--id of resume, KOPF_LIST_NAMESPACES, with spaces between the names, for --namespace of list, and so on.`,
	}
	cmd.AddCommand(newList(), newFreeze(), newResume())
	return cmd
}

func newList() *cobra.Command {
	var where access
	var form output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the operators, and who has precedence",
		Example: `  # The operators that serve the whole cluster:
  kopf peers list
  # Those of all namespaces of a team, for a script:
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

func newFreeze() *cobra.Command {
	var where access
	var form output
	var record peering.Record
	var identity string
	var dev bool
	cmd := &cobra.Command{
		Use:   "freeze",
		Short: "Have operators pause for a while",
		Long: `Write a record into the peering objects, once: operators of a lower priority pause until its lifetime is over,
or until it is removed by "resume".`,
		Example: `  # No operator is to interfere for an hour:
  kopf peers freeze --lifetime 1h --message "moving the databases"
  # Operators of developers, too, in one namespace:
  kopf peers freeze -n shop --priority 1000 --lifetime 600`,
		Args:    cobra.NoArgs,
		PreRunE: fromEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dev {
				record.Priority = peering.DevPriority
			}
			if record.Lifetime < time.Second {
				return fmt.Errorf("--lifetime is %s: give at least one second", record.Lifetime)
			}
			return run(cmd, where, form, func(ctx context.Context, c *peering.Client, target peering.Target) ([]peering.Object, error) {
				return c.Freeze(ctx, target, who(identity), record)
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	bindIdentity(cmd, &identity)
	cmd.Flags().IntVarP(&record.Priority, "priority", "p", defaultFreeze, "operators of a lower priority pause, and those of the same one")
	cmd.Flags().BoolVar(&dev, "dev", false, fmt.Sprintf("the same as --priority=%d, whatever that is", peering.DevPriority))
	cmd.Flags().VarP((*lifetime)(&record.Lifetime), "lifetime", "t", "for how long, such as 600 (seconds), 10m or 1h (required)")
	cmd.Flags().StringVarP(&record.Message, "message", "m", "", "why, for people who wonder; operators tell it")
	if err := cmd.MarkFlagRequired("lifetime"); err != nil {
		panic(err) // it has just been added
	}
	return cmd
}

func newResume() *cobra.Command {
	var where access
	var form output
	var identity string
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Have operators go on that were frozen",
		Long:  `Remove the record that "freeze" has written, or another one that was left behind, by its identity.`,
		Example: `  # After one's own freeze:
  kopf peers resume
  # After somebody else's, whose identity "list" has shown:
  kopf peers resume --id ann@laptop`,
		Args:    cobra.NoArgs,
		PreRunE: fromEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, where, form, func(ctx context.Context, c *peering.Client, target peering.Target) ([]peering.Object, error) {
				return c.Resume(ctx, target, who(identity))
			})
		},
	}
	where.bind(cmd.Flags())
	form.bind(cmd.Flags())
	bindIdentity(cmd, &identity)
	return cmd
}

func bindIdentity(cmd *cobra.Command, identity *string) {
	cmd.Flags().StringVarP(identity, "id", "i", "", "the identity of the record (default: user@host)")
}

func who(identity string) string {
	if identity != "" {
		return identity
	}
	return peering.Whoami()
}

// run does something with the objects, and shows how they are then.
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

// A lifetime is a flag: seconds, as kopf has it, or a duration.
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
