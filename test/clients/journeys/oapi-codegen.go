// Journey with the client of oapi-codegen, which is generated into the file partner.go of this package.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
)

func main() {
	ctx := context.Background()
	token := ""
	client, err := NewClientWithResponses(os.Getenv("API"), WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			return nil
		}))
	check(err)
	exchange, err := client.ExchangeTokenWithResponse(ctx, ExchangeTokenRequest{
		ClientId:     uuid.MustParse(os.Getenv("CLIENT_ID")),
		ClientSecret: os.Getenv("CLIENT_SECRET"),
		GrantType:    ClientCredentials,
		Environment:  ExchangeTokenRequestEnvironmentSandbox,
	})
	check(err)
	token = exchange.JSON200.AccessToken

	state, err := client.GetSandboxStateWithResponse(ctx, &GetSandboxStateParams{})
	check(err)
	clinicId := state.JSON200.Sandbox.ClinicId.String()
	clinic, err := client.GetClinicContextWithResponse(ctx, &GetClinicContextParams{XSERVICEClinicID: clinicId})
	check(err)
	fmt.Println("context", clinic.JSON200.Clinic.Name)

	request := CreatePartnerAppointmentRequest{
		BranchId:    clinic.JSON200.Branches[0].Id,
		AnimalId:    state.JSON200.Sandbox.Animals[0].Id,
		ScheduledAt: time.Now().AddDate(0, 0, 1),
	}
	creation, err := client.CreatePartnerAppointmentWithResponse(ctx,
		&CreatePartnerAppointmentParams{XSERVICEClinicID: clinicId, IdempotencyKey: uuid.NewString()}, request)
	check(err)
	fmt.Println("created", creation.JSON201.Appointment.Status)

	position := creation.HTTPResponse.Header.Get("X-SERVICE-Log-Position")
	limit := 250
	list, err := client.ListPartnerAppointmentsWithResponse(ctx,
		&ListPartnerAppointmentsParams{XSERVICEClinicID: clinicId, XSERVICELogPosition: &position, Limit: &limit})
	check(err)
	isListed := false
	for _, appointment := range list.JSON200.Appointments {
		isListed = isListed || appointment.Id == creation.JSON201.Appointment.Id
	}
	fmt.Println("listed", isListed)

	registration, err := client.CreateWebhookEndpointWithResponse(ctx,
		&CreateWebhookEndpointParams{XSERVICEClinicID: clinicId},
		CreateWebhookEndpointRequest{
			Url:    "http://127.0.0.1:9/hooks",
			Events: []CreateWebhookEndpointRequestEvents{CreateWebhookEndpointRequestEventsAppointmentCreated},
		})
	check(err)
	fmt.Println("endpoint", registration.JSON201.Endpoint.Status)

	request.ScheduledAt = time.Now().AddDate(0, 0, -1)
	refusal, err := client.CreatePartnerAppointmentWithResponse(ctx,
		&CreatePartnerAppointmentParams{XSERVICEClinicID: clinicId, IdempotencyKey: uuid.NewString()}, request)
	check(err)
	fmt.Println("refused", refusal.StatusCode(), refusal.JSON422.Error)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
