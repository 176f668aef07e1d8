package main

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// keep stays up until it is told to end, with the object there again, and shows what goes on.
func (d *demo) keep(ctx context.Context) error {
	_, err := d.perform(ctx, d.creation())
	if err == nil {
		_, err = d.requests.next() // of no interest
	}
	if err != nil {
		return err
	}
	d.log.next()
	d.screen.Heading("Your turn")
	d.screen.Say("The database is there again. In another terminal:\n\n" +
		"  " + strings.Join(controlplane.Exports(d.kubeconfig()), "\n  ") + "\n" +
		"  kubectl get databases\n" +
		"  kubectl get database orders -o yaml\n" +
		"  kubectl patch database orders --type=merge -p '{\"spec\":{\"sizeGiB\":30}}'\n" +
		"  kubectl delete database orders\n\n" +
		"What the operator logs, and which requests are made, goes on here. Ctrl-C ends it all.\n")
	_ = wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(context.Context) (bool, error) {
		if err = d.news(); err == nil && d.operatorEnded() {
			err = errOperatorEnded
		}
		return err != nil, nil
	})
	if err == nil {
		d.screen.Say("\nThe end: all of it is being stopped.")
	}
	return err
}

// news shows what has happened since the last look.
func (d *demo) news() error {
	requests, err := d.requests.next()
	for _, line := range append(d.log.shortened(), requests...) {
		d.screen.Say("  " + line)
	}
	return err
}
