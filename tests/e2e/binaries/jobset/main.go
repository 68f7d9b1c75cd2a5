// Command jobset runs the controllers of JobSet against a test cluster, without its webhooks: a test writes
// what they would have filled in.
package main

import (
	"flag"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
)

func main() {
	flag.Parse() // controller-runtime's own: --kubeconfig
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(jobset.AddToScheme(scheme))

	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 500, 500
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	must(err)
	ctx := ctrl.SetupSignalHandler()
	must(controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer()))
	reconciler := controllers.NewJobSetReconciler(manager.GetClient(), manager.GetScheme(),
		manager.GetEventRecorder("jobset"))
	must(reconciler.SetupWithManager(manager))
	must(manager.Start(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
