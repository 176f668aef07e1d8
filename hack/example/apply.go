package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
)

// prepare applies what has to be there before the operator is: the definitions of its kinds, and where it meets others.
func (g *stage) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	crds, err := g.example.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := g.create(ctx, crd, "The kind "+crd.Spec.Names.Kind); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", g.pinned())
	if err != nil {
		return err
	}
	if err := envtest.WaitForCRDs(config, crds, envtest.CRDInstallOptions{MaxTime: installLimit}); err != nil {
		return fmt.Errorf("the kinds are defined, but not served: %w", err)
	}
	return g.createSamples(ctx, catalog.IsPeering)
}

// applySamples is for all others: the operator is to see them come.
func (g *stage) applySamples(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	return g.createSamples(ctx, func(obj *unstructured.Unstructured) bool { return !catalog.IsPeering(obj) })
}

func (g *stage) createSamples(ctx context.Context, wanted func(*unstructured.Unstructured) bool) error {
	samples, err := g.example.Objects("samples")
	if err != nil {
		return err
	}
	for _, obj := range samples {
		if !wanted(obj) {
			continue
		}
		if err := g.create(ctx, obj, "The sample "+obj.GetKind()+" "+obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// create leaves alone what is there already: it may be somebody's. That the API server says no is part of the play, as some
// of the samples are wrong; anything else is an error.
func (g *stage) create(ctx context.Context, obj client.Object, what string) error {
	err := g.client.Create(ctx, obj)
	switch {
	case err == nil:
		g.screen.Say("* " + what + " is created.")
	case apierrors.IsAlreadyExists(err):
		g.screen.Say("* " + what + " is there already, and stays as it is.")
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		g.screen.Say("* " + what + " is refused: " + err.Error())
	default:
		return fmt.Errorf("%s cannot be created: %w", what, err)
	}
	return nil
}
