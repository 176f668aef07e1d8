package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newObjects() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "What an operator has left on the objects of a kind",
		Long: `Operators with handlers leave a finalizer and annotations on objects: how far their handlers are, and what the objects were like
when they were last handled. Here it is shown, and taken off.`,
	}
	cmd.AddCommand(newObjectsList(), newObjectsRelease())
	return cmd
}

func newObjectsList() *cobra.Command {
	var which selection
	var form output
	var look inspector
	var fields []string
	cmd := &cobra.Command{
		Use:   "list KIND [NAME...]",
		Short: "Show what an operator would find if it were started now",
		Long: `For each object: is it held by the finalizer, which cause would an operator conclude, how far are its handlers, and are there
records of handlers that it does not have? Nothing is written, and it does not matter whether an operator is running.
This is the rehearsal before another operator takes over, such as one in Go after one in Python.`,
		Example: `  # What is under way?
  kopf objects list databases.example.com -A
  # Before an operator with these handlers takes over: what would be due, and which records would be nobody's?
  kopf objects list databases.example.com -A --handler provision --handler resize/spec.size
  # For a script:
  kopf objects list databases.example.com -A -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.check(); err != nil {
				return err
			}
			if err := look.prepare(fields); err != nil {
				return err
			}
			look.now = time.Now()
			findings := []finding{}
			if err := which.each(cmd.Context(), args, func(_ context.Context, _ client.Client, obj *unstructured.Unstructured) error {
				findings = append(findings, look.inspect(obj))
				return nil
			}); err != nil {
				return err
			}
			return form.write(cmd.OutOrStdout(), findings, func() [][]string { return findingRows(findings, look.now) })
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	look.bind(cmd.Flags())
	cmd.Flags().StringArrayVar(&look.handlers, "handler", nil, "the id of a handler that the operator has; repeat it for each. Records of others are shown as unknown then")
	cmd.Flags().StringArrayVar(&fields, "field", nil, `a field outside of the spec and the metadata that handlers are for, such as "status.phase"; may be repeated`)
	return cmd
}

func newObjectsRelease() *cobra.Command {
	var which selection
	var form output
	var from place
	var what release
	cmd := &cobra.Command{
		Use:   "release KIND [NAME...]",
		Short: "Take off what an operator has left, so that objects do not wait for it",
		Long: `Objects with the finalizer of an operator cannot be deleted without it. Before it is uninstalled, or when it is gone already,
this takes its finalizer and its annotations off.

Without --yes nothing is written: it shows what would be. Stop the operator first: one that is running puts the finalizer on again.
With --extras-only, the finalizer, the records, and what the objects were like when they were last handled stay for kopf in Python. Only the annotations
that it does not know are removed.

What it was to do at the deletion of objects is not done by anybody then. One that is installed again later takes objects without
annotations for new ones.`,
		Example: `  # What would be taken off?
  kopf objects release databases.example.com -A
  # Do it:
  kopf objects release databases.example.com -A --yes
  # The operator comes back later, and is to go on where it was: only let objects be deleted until then.
  kopf objects release databases.example.com -A --keep-annotations --yes
  # An operator in Python takes over.
  kopf objects release databases.example.com -A --extras-only --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.check(); err != nil {
				return err
			}
			if err := from.check(); err != nil {
				return err
			}
			what.place = from
			changes := []change{}
			err := which.each(cmd.Context(), args, func(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
				done, err := what.object(ctx, c, obj)
				if done != nil {
					changes = append(changes, *done)
				}
				return err
			})
			if printErr := form.write(cmd.OutOrStdout(), changes, func() [][]string { return changeRows(changes) }); printErr != nil {
				return printErr
			}
			if err == nil && !what.yes && len(changes) > 0 {
				cmd.PrintErrln("Nothing was written. Add --yes to do it.")
			}
			return err
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	from.bind(cmd.Flags())
	cmd.Flags().BoolVar(&what.yes, "yes", false, "write; without it, only show what would be written")
	cmd.Flags().BoolVar(&what.keepAnnotations, "keep-annotations", false, "only take off the finalizer")
	cmd.Flags().BoolVar(&what.extrasOnly, "extras-only", false, "only remove the annotations that kopf in Python does not know")
	cmd.MarkFlagsMutuallyExclusive("keep-annotations", "extras-only")
	return cmd
}
