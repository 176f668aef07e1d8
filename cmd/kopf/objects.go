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
		Short: "Inspect objects, and remove the state that an operator stores on them",
		Long: `Operators store a finalizer and annotations on objects: the progress of handlers and the last-handled configuration.
These commands show and remove them, and find objects that do not fit their schema.`,
	}
	cmd.AddCommand(newObjectsList(), newObjectsCheck(), newObjectsRelease())
	return cmd
}

func newObjectsList() *cobra.Command {
	var which selection
	var form output
	var look inspector
	var fields []string
	cmd := &cobra.Command{
		Use:   "list KIND [NAME...]",
		Short: "Show the state from the view of an operator that starts now",
		Long: `For each object, show whether it has the finalizer, the cause that an operator would detect, the progress of its handlers,
and records of unknown handlers. The command writes nothing. The operator may be running.
Use this command before another operator takes over, for example one in Go that replaces one in Python.`,
		Example: `  # Show unfinished handlers:
  kopf objects list databases.example.com -A
  # Before an operator with these handlers takes over, show due handlers and records of other handlers:
  kopf objects list databases.example.com -A --handler provision --handler resize/spec.size
  # For scripts:
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
	cmd.Flags().StringArrayVar(&look.handlers, "handler", nil, "id of a handler of the operator; repeatable. Records of other handlers are then listed as unknown")
	cmd.Flags().StringArrayVar(&fields, "field", nil, `field with handlers outside of spec and metadata, such as "status.phase"; repeatable`)
	return cmd
}

func newObjectsRelease() *cobra.Command {
	var which selection
	var form output
	var from storage
	var what release
	cmd := &cobra.Command{
		Use:   "release KIND [NAME...]",
		Short: "Remove the state that an operator stores on objects",
		Long: `An object with the finalizer of an operator cannot be deleted while this operator is not running. Use this command before you uninstall an
operator, or after it was removed. It removes the finalizer and the annotations of the operator.

Without --yes, it only prints the changes. Stop the operator first, because a running operator adds the finalizer again.
With --extras-only, it removes only the annotations that kopf in Python does not know. The finalizer, the records and the last-handled
configuration stay.

The operator does not call its delete handlers for released objects. If you install the operator again, it handles objects without annotations
as new.`,
		Example: `  # Print the changes:
  kopf objects release databases.example.com -A
  # Apply them:
  kopf objects release databases.example.com -A --yes
  # Allow deletions until the operator is installed again and continues its work:
  kopf objects release databases.example.com -A --keep-annotations --yes
  # An operator in Python takes over:
  kopf objects release databases.example.com -A --extras-only --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.check(); err != nil {
				return err
			}
			if err := from.check(); err != nil {
				return err
			}
			what.storage = from
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
				cmd.PrintErrln("Nothing was written. Use --yes to apply the changes.")
			}
			return err
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	from.bind(cmd.Flags())
	cmd.Flags().BoolVar(&what.yes, "yes", false, "apply the changes; without it, only print them")
	cmd.Flags().BoolVar(&what.keepAnnotations, "keep-annotations", false, "remove only the finalizer")
	cmd.Flags().BoolVar(&what.extrasOnly, "extras-only", false, "remove only the annotations that kopf in Python does not know")
	cmd.MarkFlagsMutuallyExclusive("keep-annotations", "extras-only")
	return cmd
}
