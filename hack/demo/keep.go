package main

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// keep creates the object again and shows the log and the requests until the context is cancelled.
func (d *demo) keep(ctx context.Context) error {
	_, err := d.perform(ctx, d.creation())
	if err == nil {
		_, err = d.requests.next() // skip the requests of the creation
	}
	if err != nil {
		return err
	}
	d.log.next()
	d.screen.Heading("Your turn")
	d.screen.Say("The database exists again. In another terminal:\n\n" +
		"  " + strings.Join(controlplane.Exports(d.kubeconfig()), "\n  ") + "\n" +
		"  kubectl get databases\n" +
		"  kubectl get database orders -o yaml\n" +
		"  kubectl patch database orders --type=merge -p '{\"spec\":{\"sizeGiB\":30}}'\n" +
		"  kubectl delete database orders\n\n" +
		"The log of the operator and the requests follow. Press Ctrl-C to stop.\n")
	_ = wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(context.Context) (bool, error) {
		if err = d.showNew(); err == nil && d.operatorEnded() {
			err = errOperatorEnded
		}
		return err != nil, nil
	})
	if err == nil {
		d.screen.Say("\nStopping everything.")
	}
	return err
}

// showNew shows the log lines and the requests since the last call.
func (d *demo) showNew() error {
	requests, err := d.requests.next()
	for _, line := range append(d.log.shortened(), requests...) {
		d.screen.Say("  " + line)
	}
	return err
}
