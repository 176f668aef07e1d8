package kopf_test

import (
	"context"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleRequest_Sub() {
	kopf.For(&Database{}).
		OnCreate("provision", func(_ context.Context, req *DatabaseRequest) error {
			for replica := range req.Object.Spec.Size {
				req.Sub(fmt.Sprintf("replica-%d", replica), func(ctx context.Context, req *DatabaseRequest) error {
					_, err := cloud.Ensure(ctx, fmt.Sprintf("%s-%d", req.Object.Name, replica), 1)
					return err
				}, kopf.Retries(5))
			}
			return nil // now they are called; "provision" is done when all of them are
		})
}
